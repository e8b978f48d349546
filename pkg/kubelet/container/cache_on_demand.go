/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package container

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// onDemandCache is a cache in which no one waits for the next periodic relist.
type onDemandCache struct {
	*cache
	requestRelist func(types.UID)
}

// NewOnDemandCache creates a pod cache that calls requestRelist for a pod whenever GetNewerThan has to
// wait for its status. requestRelist must not block; if nothing comes of it, GetNewerThan returns after
// the next relist, as that of NewCache does.
func NewOnDemandCache(requestRelist func(types.UID)) Cache {
	return &onDemandCache{cache: NewCache().(*cache), requestRelist: requestRelist}
}

// GetNewerThan implements Cache.
func (c *onDemandCache) GetNewerThan(id types.UID, minTime time.Time) (*PodStatus, error) {
	c.lock.RLock()
	mustWait := c.getIfNewerThan(id, minTime) == nil
	c.lock.RUnlock()
	if mustWait {
		c.requestRelist(id)
	}
	return c.cache.GetNewerThan(id, minTime)
}
