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

package get

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// A watch shows the pod in the API, whatever subresource was asked for.
func TestAllocatedCannotBeWatched(t *testing.T) {
	for name, tc := range map[string]struct {
		subresource      string
		watch, watchOnly bool
		wantErr          string
	}{
		"allocated":              {subresource: "allocated"},
		"allocated, watch":       {subresource: "allocated", watch: true, wantErr: "--subresource=allocated cannot be used with --watch"},
		"allocated, watch only":  {subresource: "allocated", watchOnly: true, wantErr: "--subresource=allocated cannot be used with --watch"},
		"other resources, watch": {watch: true},
		"status, watch":          {subresource: "status", watch: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewGetOptions("kubectl", genericiooptions.NewTestIOStreamsDiscard())
			o.Subresource, o.Watch, o.WatchOnly = tc.subresource, tc.watch, tc.watchOnly
			err := o.Validate()
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want an error with %q", err, tc.wantErr)
			}
		})
	}
}
