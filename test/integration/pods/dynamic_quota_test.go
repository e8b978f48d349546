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

package pods

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/controller"
	resourcequotacontroller "k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/test/integration/framework"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// The quota controller releases what a removed container had once it has stopped, not with its next full resync.
func TestDynamicQuotaIsReleased(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	ctx := ktesting.Init(t)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-quota", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)

	factory := informers.NewSharedInformerFactory(client, controller.NoResyncPeriodFunc())
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(factory.ForResource), factory)
	if err != nil {
		t.Fatal(err)
	}
	informersStarted := make(chan struct{})
	quotaController, err := resourcequotacontroller.NewController(ctx, &resourcequotacontroller.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     factory.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.NoResyncPeriodFunc,
		InformerFactory:           factory,
		ReplenishmentResyncPeriod: controller.NoResyncPeriodFunc,
		DiscoveryFunc:             client.Discovery().ServerPreferredNamespacedResources,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          informersStarted,
		Registry:                  generic.NewRegistry(configuration.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		t.Fatal(err)
	}
	go quotaController.Run(ctx, 1)
	factory.Start(ctx.Done())
	close(informersStarted)

	if _, err := client.CoreV1().ResourceQuotas(ns.Name).Create(ctx, &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{v1.ResourceRequestsCPU: resource.MustParse("4")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForUsed := func(want string) {
		t.Helper()
		waitFor(t, func() error {
			quota, err := client.CoreV1().ResourceQuotas(ns.Name).Get(ctx, "quota", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if used, found := quota.Status.Used[v1.ResourceRequestsCPU]; !found || used.String() != want {
				return fmt.Errorf("want %s cpu of the quota used, got %s (%v)", want, used.String(), found)
			}
			return nil
		})
	}
	waitForUsed("0")

	pod := createRunningPodWith(t, client, ns.Name, dynamicNode, func(pod *v1.Pod) {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}
	})
	waitForUsed("2")

	pod, err = client.CoreV1().Pods(ns.Name).Patch(ctx, pod.Name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"w","image":"image","resources":{"requests":{"cpu":"500m"}}}]}}`), metav1.PatchOptions{}, "dynamic")
	if err != nil {
		t.Fatal(err)
	}
	waitForUsed("2500m")

	pod, err = client.CoreV1().Pods(ns.Name).Patch(ctx, pod.Name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"b","$patch":"delete"}]}}`), metav1.PatchOptions{}, "dynamic")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == "b" {
			status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", ContainerID: status.ContainerID}}
		}
	}
	if pod, err = client.CoreV1().Pods(ns.Name).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, found := podutil.GetContainerStatus(pod.Status.ContainerStatuses, "b"); !found {
		t.Fatal("the status of the removed container is not kept")
	}
	waitForUsed("1500m")
}
