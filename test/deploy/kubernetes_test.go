package deploy_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifests are the documents of the Kubernetes file by kind and name, each read as Kubernetes reads it: a field that
// it does not know is a fault.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	found := map[string]any{}
	for document := range bytes.SplitSeq([]byte(readFile(t, "deploy/kubernetes/pacer.yaml")), []byte("\n---\n")) {
		var head struct {
			meta.TypeMeta   `json:",inline"`
			meta.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatal(err)
		}
		object := map[string]any{
			"batch/v1 Job": &batch.Job{}, "apps/v1 Deployment": &apps.Deployment{}, "v1 Service": &core.Service{},
			"policy/v1 PodDisruptionBudget":          &policy.PodDisruptionBudget{},
			"autoscaling/v2 HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
		}[head.APIVersion+" "+head.Kind]
		if object == nil {
			t.Fatalf("%s %s is of no kind that this test knows", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s %s: %v", head.Kind, head.Name, err)
		}
		found[head.Kind+" "+head.Name] = object
	}
	return found
}

// The manifests fit the API of Kubernetes, and one another.
func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	for _, want := range []string{
		"Job pacer-migrate", "Deployment pacer-worker", "Deployment pacer-api", "Service pacer-api",
		"Service pacer-ops",
		"PodDisruptionBudget pacer-worker", "HorizontalPodAutoscaler pacer-worker",
	} {
		if all[want] == nil {
			t.Fatalf("there is no %s", want)
		}
	}
	labels := map[string]map[string]string{}
	for name, object := range all {
		if deployment, ok := object.(*apps.Deployment); ok {
			labels[name] = deployment.Spec.Template.Labels
			checkDeployment(t, deployment)
		}
	}
	for name, object := range all {
		if service, ok := object.(*core.Service); ok &&
			!slices.ContainsFunc([]string{"Deployment pacer-worker", "Deployment pacer-api"}, func(d string) bool {
				return matches(service.Spec.Selector, labels[d])
			}) {
			t.Errorf("%s leads to no pod", name)
		}
	}
	scaler, _ := all["HorizontalPodAutoscaler pacer-worker"].(*autoscaling.HorizontalPodAutoscaler) // looked for above
	if target := scaler.Spec.ScaleTargetRef; all[target.Kind+" "+target.Name] == nil {
		t.Errorf("the autoscaler scales %s %s, which does not exist", target.Kind, target.Name)
	}
	adapter := readFile(t, "deploy/kubernetes/adapter.yaml")
	for _, metric := range scaler.Spec.Metrics {
		if metric.External != nil && !strings.Contains(adapter, "as: "+metric.External.Metric.Name) {
			t.Errorf("the adapter does not make %s", metric.External.Metric.Name)
		}
		if metric.External != nil {
			known(t, "the autoscaler", metric.External.Metric.Name, metricNames(t))
		}
	}
	budget, _ := all["PodDisruptionBudget pacer-worker"].(*policy.PodDisruptionBudget)
	if !matches(budget.Spec.Selector.MatchLabels, labels["Deployment pacer-worker"]) {
		t.Error("the disruption budget is of no pod")
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
	if *pod.TerminationGracePeriodSeconds < 30 || !*pod.SecurityContext.RunAsNonRoot ||
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

// The units for systemd run commands that there are, and give a stopping process time to drain.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"pacer.service": {
			"ExecStart=/usr/local/bin/dispatcher serve", "ExecReload=/bin/kill -HUP $MAINPID",
			"TimeoutStopSec=40", "User=pacer", "Restart=on-failure",
		},
		"pacer-migrate.service": {
			"ExecStart=/usr/local/bin/dispatcher migrate up", "Type=oneshot",
			"Before=pacer.service", "User=pacer",
		},
	} {
		unit := readFile(t, "deploy/systemd/"+name)
		section := ""
		for line := range strings.Lines(unit) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "["):
				section = line
				if !slices.Contains([]string{"[Unit]", "[Service]", "[Install]"}, section) {
					t.Errorf("%s has a section %s", name, section)
				}
			case section == "" || !strings.Contains(line, "="):
				t.Errorf("%s: %q belongs to nothing", name, line)
			}
		}
		for _, line := range want {
			if !strings.Contains(unit, "\n"+line+"\n") {
				t.Errorf("%s does not say %s", name, line)
			}
		}
	}
}
