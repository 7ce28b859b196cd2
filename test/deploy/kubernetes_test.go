package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are what Kustomize makes of a folder, by kind and name, each read as Kubernetes reads it: a field that it
// does not know is a fault.
func manifests(t *testing.T, folder string) map[string]any {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join("..", "..", folder))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, resource := range rendered.Resources() {
		object := map[string]any{
			"batch/v1 Job": &batch.Job{}, "apps/v1 Deployment": &apps.Deployment{}, "v1 Service": &core.Service{},
			"policy/v1 PodDisruptionBudget":          &policy.PodDisruptionBudget{},
			"autoscaling/v2 HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
			"networking.k8s.io/v1 NetworkPolicy":     &networking.NetworkPolicy{},
		}[resource.GetApiVersion()+" "+resource.GetKind()]
		if object == nil {
			t.Fatalf("%s is of no kind that this test knows", resource.CurId())
		}
		if err := yaml.UnmarshalStrict([]byte(resource.MustYaml()), object); err != nil {
			t.Errorf("%s: %v", resource.CurId(), err)
		}
		found[resource.GetKind()+" "+resource.GetName()] = object
	}
	return found
}

// The manifests fit the API of Kubernetes, and one another.
func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	all := manifests(t, "deploy/kubernetes")
	for _, want := range []string{
		"Deployment pacer-worker", "Deployment pacer-api", "Service pacer-api", "Service pacer-ops",
		"PodDisruptionBudget pacer-worker", "PodDisruptionBudget pacer-api", "HorizontalPodAutoscaler pacer-worker",
		"NetworkPolicy pacer",
	} {
		if all[want] == nil {
			t.Fatalf("there is no %s", want)
		}
	}
	pods := map[string]core.PodTemplateSpec{}
	for name, object := range all {
		if deployment, ok := object.(*apps.Deployment); ok {
			pods[name] = deployment.Spec.Template
			checkDeployment(t, deployment)
		}
	}
	for name, object := range all {
		switch object := object.(type) {
		case *core.Service:
			checkSelects(t, name, object.Spec.Selector, pods)
		case *policy.PodDisruptionBudget:
			checkSelects(t, name, object.Spec.Selector.MatchLabels, pods)
		case *networking.NetworkPolicy:
			checkSelects(t, name, object.Spec.PodSelector.MatchLabels, pods)
			checkReach(t, object)
		case *autoscaling.HorizontalPodAutoscaler:
			if target := object.Spec.ScaleTargetRef; all[target.Kind+" "+target.Name] == nil {
				t.Errorf("the autoscaler scales %s %s, which does not exist", target.Kind, target.Name)
			}
			checkMetrics(t, object)
		}
	}
}

// checkSelects wants the selector to select the pods of some deployment.
func checkSelects(t *testing.T, name string, selector map[string]string, pods map[string]core.PodTemplateSpec) {
	t.Helper()
	for _, pod := range pods {
		if matches(selector, pod.Labels) {
			return
		}
	}
	t.Errorf("%s leads to no pod", name)
}

// checkMetrics wants the autoscaler's metrics to be pacer's, and the adapter to make them.
func checkMetrics(t *testing.T, scaler *autoscaling.HorizontalPodAutoscaler) {
	t.Helper()
	adapter := readFile(t, "deploy/kubernetes/adapter.yaml")
	for _, metric := range scaler.Spec.Metrics {
		if metric.External == nil {
			continue
		}
		if !strings.Contains(adapter, "as: "+metric.External.Metric.Name) {
			t.Errorf("the adapter does not make %s", metric.External.Metric.Name)
		}
		known(t, "the autoscaler", metric.External.Metric.Name, metricNames(t))
	}
}

// checkReach wants everybody to reach the API, and only those that are named to reach the ops pages.
func checkReach(t *testing.T, network *networking.NetworkPolicy) {
	t.Helper()
	reached := map[string]int{}
	for _, rule := range network.Spec.Ingress {
		for _, port := range rule.Ports {
			reached[port.Port.StrVal] = len(rule.From)
		}
	}
	if from, named := reached["ops"]; !named || from == 0 {
		t.Errorf("the ops pages can be reached from %d kinds of pods, 0 is everybody: %v", from, reached)
	}
	if from, named := reached["api"]; !named || from != 0 {
		t.Errorf("not everybody reaches the API: %v", reached)
	}
}

// The Job for the schema runs the image that the processes run, and is replaced by those who can't delete it by hand.
func TestKubernetesMigration(t *testing.T) {
	t.Parallel()
	all := manifests(t, "deploy/kubernetes/migrate")
	job, ok := all["Job pacer-migrate"].(*batch.Job)
	if !ok || len(all) != 1 {
		t.Fatalf("the folder has %d objects and the Job is there: %v; want the Job alone", len(all), ok)
	}
	for annotation, want := range map[string]string{
		"argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation", "kustomize.toolkit.fluxcd.io/force": "enabled",
	} {
		if job.Annotations[annotation] != want {
			t.Errorf("%s is %q, want %q", annotation, job.Annotations[annotation], want)
		}
	}
	api, ok := manifests(t, "deploy/kubernetes")["Deployment pacer-api"].(*apps.Deployment)
	if !ok {
		t.Fatal("there is no API")
	}
	migrate, serve := job.Spec.Template.Spec.Containers[0], api.Spec.Template.Spec.Containers[0]
	if migrate.Image != serve.Image || job.Namespace != api.Namespace ||
		!slices.Equal(migrate.Args, []string{"migrate", "up"}) {
		t.Errorf("the Job runs %q of %s in %s, the API %s in %s", migrate.Args, migrate.Image, job.Namespace, serve.Image,
			api.Namespace)
	}
}

// checkDeployment wants what a pod of pacer needs: probes on ports that there are, time to drain, no privileges.
func checkDeployment(t *testing.T, d *apps.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	for path, probe := range map[string]*core.Probe{
		"/readyz":  container.ReadinessProbe,
		"/healthz": container.LivenessProbe,
	} {
		if probe == nil || probe.HTTPGet.Path != path || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s: the probe of %s is %+v", d.Name, path, probe)
		}
	}
	if probe := container.ReadinessProbe; probe != nil && probe.TimeoutSeconds < 3 {
		t.Errorf("%s: readiness takes up to 2 s to tell which store does not respond, the probe waits %d", d.Name,
			probe.TimeoutSeconds)
	}
	security := container.SecurityContext
	delay := int64(0)
	if container.Lifecycle != nil {
		delay = container.Lifecycle.PreStop.Sleep.Seconds
	}
	if serves := ports["api"]; serves != (delay > 0) {
		t.Errorf("%s: has an API: %v, and stops %d s after its pod has left the service", d.Name, serves, delay)
	}
	if len(pod.TopologySpreadConstraints) == 0 {
		t.Errorf("%s: all its pods may be on one node", d.Name)
	}
	for _, spread := range pod.TopologySpreadConstraints {
		if !matches(spread.LabelSelector.MatchLabels, d.Spec.Template.Labels) {
			t.Errorf("%s: is spread by %s, but apart from other pods", d.Name, spread.TopologyKey)
		}
	}
	if container.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s: has no memory limit to keep to", d.Name)
	}
	if *pod.TerminationGracePeriodSeconds-delay < 30 || !*pod.SecurityContext.RunAsNonRoot ||
		!*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation {
		t.Errorf("%s: has too little time, or too many privileges", d.Name)
	}
	if !matches(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) ||
		!slices.Equal(container.Args, []string{"serve"}) {
		t.Errorf("%s: does not select its own pods, or does not serve", d.Name)
	}
	roles := ""
	for _, env := range container.Env {
		if env.Name == "PACER_ROLES" {
			roles = env.Value
		}
	}
	if !strings.HasSuffix(d.Name, strings.Split(roles, ",")[0]) {
		t.Errorf("%s: has the roles %q", d.Name, roles)
	}
}

func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}
