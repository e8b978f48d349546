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

package kuberuntime

import (
	"context"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/lru"
)

// maxImageUsers bounds the images whose users are remembered. A start needs the one of the image that it
// has just looked up.
const maxImageUsers = 1000

// imageUsers remembers the users of images by the IDs of these, so that a start that asked the runtime
// whether it has the image need not ask again for its user. The zero value is ready to use.
type imageUsers struct {
	once sync.Once
	byID *lru.Cache
}

// imageUser is the user of an image, as getImageUser returns it.
type imageUser struct {
	uid  *int64
	name string
}

func (u *imageUsers) cache() *lru.Cache {
	u.once.Do(func() { u.byID = lru.New(maxImageUsers) })
	return u.byID
}

// observe takes note of the user of an image that the runtime has.
func (u *imageUsers) observe(image *runtimeapi.Image) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return
	}
	user := imageUser{name: image.Username}
	switch {
	case image.Uid != nil:
		user = imageUser{uid: &image.Uid.Value}
	case image.Username == "":
		user.uid = new(int64)
	}
	u.cache().Add(image.Id, user)
}

// getImageUserByRef is getImageUser of the image that the runtime knows by imageRef.
func (m *kubeGenericRuntimeManager) getImageUserByRef(ctx context.Context, image, imageRef string) (*int64, string, error) {
	if user, ok := m.imageUsers.cache().Get(imageRef); ok {
		return user.(imageUser).uid, user.(imageUser).name, nil
	}
	return m.getImageUser(ctx, image)
}
