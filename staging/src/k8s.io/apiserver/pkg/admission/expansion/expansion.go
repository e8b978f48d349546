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

// Package expansion lets a server declare that a request to a subresource amounts to requests on another resource, so
// that the admission webhooks and policies that guard the latter cannot be walked around through the former.
//
// A webhook or policy that would have seen one of the equivalent requests, but is not configured to see the request
// itself, refuses it: nobody could know what that webhook or policy would have said.
package expansion

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Request is a kind of request, as the rules of webhooks and policies tell them apart. The API version is left out: an
// expansion holds for every version of the resource.
type Request struct {
	Resource    schema.GroupResource
	Subresource string
	Operation   admission.Operation
}

// Table maps a kind of request to the kinds of requests that it amounts to. Requests that are not in the table amount
// to nothing but themselves; a nil table is ready to use.
type Table map[Request][]Request

// Expand returns the requests that attr amounts to: attr itself as far as user, object, name and namespace go, with
// resource, subresource and operation replaced.
func (t Table) Expand(attr admission.Attributes) []admission.Attributes {
	if len(t) == 0 {
		return nil
	}
	requests := t[requestOf(attr)]
	expanded := make([]admission.Attributes, 0, len(requests))
	for _, request := range requests {
		expanded = append(expanded, &expandedAttributes{Attributes: attr, request: request})
	}
	return expanded
}

func requestOf(attr admission.Attributes) Request {
	return Request{
		Resource:    attr.GetResource().GroupResource(),
		Subresource: attr.GetSubresource(),
		Operation:   attr.GetOperation(),
	}
}

// expandedAttributes is a request that was not made, but that the request which was made amounts to.
type expandedAttributes struct {
	admission.Attributes
	request Request
}

func (a *expandedAttributes) GetResource() schema.GroupVersionResource {
	return a.request.Resource.WithVersion(a.Attributes.GetResource().Version)
}
func (a *expandedAttributes) GetSubresource() string            { return a.request.Subresource }
func (a *expandedAttributes) GetOperation() admission.Operation { return a.request.Operation }

// NewForbidden returns the error with which a webhook or policy that does not intercept attr, but does intercept the
// expanded request that attr amounts to, refuses attr. interceptor names the webhook or policy; rules says where its
// missing rule belongs.
func NewForbidden(attr, expanded admission.Attributes, interceptor, rules string) *apierrors.StatusError {
	// NewForbidden returns a StatusError for every error that is not one already.
	return admission.NewForbidden(attr, fmt.Errorf("%s intercepts %s but not %s, which can have the same effect; to allow it, add to %s: %s",
		interceptor, describe(expanded), describe(attr), rules, ruleFor(attr))).(*apierrors.StatusError)
}

// describe renders the kind of request like "UPDATE of pods/dynamic".
func describe(attr admission.Attributes) string {
	return fmt.Sprintf("%s of %s", attr.GetOperation(), pathOf(attr))
}

// ruleFor renders the narrowest rule that intercepts attr, in YAML's flow style, to be pasted into a configuration.
func ruleFor(attr admission.Attributes) string {
	resource := attr.GetResource()
	return fmt.Sprintf("{apiGroups: [%q], apiVersions: [%q], operations: [%q], resources: [%q]}",
		resource.Group, resource.Version, string(attr.GetOperation()), pathOf(attr))
}

func pathOf(attr admission.Attributes) string {
	if attr.GetSubresource() == "" {
		return attr.GetResource().Resource
	}
	return attr.GetResource().Resource + "/" + attr.GetSubresource()
}
