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

package options

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
)

// decisionsOnDynamic says for every admission plugin what it does about updates through pods/dynamic, which can add
// containers, and change what pods/resize and an update of the pod can change. A plugin that acts on any of that must act
// on pods/dynamic, too, or it can be walked around.
var decisionsOnDynamic = map[string]string{
	"AlwaysPullImages":             "acts: added containers are made to pull, changed images must be pulled",
	"DefaultTolerationSeconds":     "acts: tolerations that a client dropped come back, as on update",
	"ImagePolicyWebhook":           "acts: has the images reviewed, as on update",
	"LimitRanger":                  "acts: defaults for added containers, limits for added and resized ones and for the pod",
	"MutatingAdmissionPolicy":      "acts: by its rules; refuses if they match creates or updates of pods, but not this",
	"MutatingAdmissionWebhook":     "acts: by its rules; refuses if they match creates or updates of pods, but not this",
	"NodeDeclaredFeatureValidator": "acts: refuses what the node does not declare to support",
	"NodeRestriction":              "acts: refuses nodes, as for every subresource that they need not use",
	"PodResizeValidator":           "acts: refuses additions and growth that the node can never hold",
	"PodSecurity":                  "acts: evaluates the pod if a container is added or changes significantly",
	"PodTolerationRestriction":     "acts: tolerations must be on the whitelist, as on update",
	"Priority":                     "acts: a priority that a client dropped comes back, as on update",
	"ResourceQuota":                "acts: charges what is added",
	"ServiceAccount":               "acts: mountable secrets and the token mount of added containers",
	"ValidatingAdmissionPolicy":    "acts: by its rules; refuses if they match creates or updates of pods, but not this",
	"ValidatingAdmissionWebhook":   "acts: by its rules; refuses if they match creates or updates of pods, but not this",

	"AlwaysAdmit":                          "acts on everything, and allows it",
	"AlwaysDeny":                           "acts on everything, and denies it",
	"EventRateLimit":                       "nothing to do: events",
	"ExtendedResourceToleration":           "nothing to do: extended resources cannot be added to a running pod",
	"LimitPodHardAntiAffinityTopology":     "nothing to do: affinity is set at creation",
	"NamespaceAutoProvision":               "nothing to do: the namespace of an existing pod exists",
	"NamespaceExists":                      "acts: on every request",
	"NamespaceLifecycle":                   "acts: on every request",
	"OwnerReferencesPermissionEnforcement": "nothing to do: the strategy resets owner references to the stored ones",
	"PodNodeSelector":                      "nothing to do: the node is chosen",
	"PodTopologyLabels":                    "nothing to do: labels are set when the pod is bound",
	"RuntimeClass":                         "nothing to do: the runtime class is set at creation",
	"TaintNodesByCondition":                "nothing to do: nodes",

	"CertificateApproval":           "nothing to do: certificate signing requests",
	"CertificateSigning":            "nothing to do: certificate signing requests",
	"CertificateSubjectRestriction": "nothing to do: certificate signing requests",
	"ClusterTrustBundleAttest":      "nothing to do: trust bundles",
	"DefaultIngressClass":           "nothing to do: ingresses",
	"DefaultStorageClass":           "nothing to do: volume claims",
	"DenyServiceExternalIPs":        "nothing to do: services",
	"PersistentVolumeClaimResize":   "nothing to do: volume claims",
	"PodGroupProtection":            "nothing to do: pod groups",
	"StorageObjectInUseProtection":  "nothing to do: volumes and volume claims",
}

func TestEveryPluginHasADecisionOnDynamic(t *testing.T) {
	plugins := admission.NewPlugins()
	RegisterAllAdmissionPlugins(plugins)
	registered := sets.New(plugins.Registered()...).Insert(AllOrderedPlugins...)
	for _, name := range sets.List(registered) {
		if decisionsOnDynamic[name] == "" {
			t.Errorf("no decision is recorded on what admission plugin %s does about pods/dynamic: find out whether it acts on what a pod contains when pods are created, updated or resized; if so, make it act on pods/dynamic", name)
		}
	}
	for name := range decisionsOnDynamic {
		if !registered.Has(name) {
			t.Errorf("there is no admission plugin %s any more", name)
		}
	}
}
