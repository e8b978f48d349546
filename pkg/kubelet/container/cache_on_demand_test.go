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
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestOnDemandCacheRequestsARelistOnlyIfItHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		var requested []types.UID
		c = NewOnDemandCache(func(id types.UID) {
			requested = append(requested, id)
			time.AfterFunc(time.Millisecond, func() { c.Set(id, &PodStatus{ID: id, Name: "new"}, nil, time.Now()) })
		})
		c.Set("uid", &PodStatus{ID: "uid", Name: "old"}, nil, time.Now())

		status, err := c.GetNewerThan("uid", time.Now().Add(-time.Second))
		assert.NoError(t, err)
		assert.Equal(t, "old", status.Name)
		assert.Empty(t, requested, "it is new enough")

		start := time.Now()
		status, err = c.GetNewerThan("uid", start)
		assert.NoError(t, err)
		assert.Equal(t, "new", status.Name)
		assert.Equal(t, []types.UID{"uid"}, requested)
		assert.Equal(t, time.Millisecond, time.Since(start), "time that it waited")

		// A periodic relist that came last will do for every pod.
		time.Sleep(time.Second)
		synced := time.Now()
		time.Sleep(time.Second)
		c.UpdateTime(time.Now())
		_, err = c.GetNewerThan("uid", synced)
		assert.NoError(t, err)
		_, err = c.GetNewerThan("unknown", synced)
		assert.NoError(t, err)
		assert.Equal(t, []types.UID{"uid"}, requested)
	})
}
