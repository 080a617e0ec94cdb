{{/* Never cut short: a shortened name could begin another release's names, and the sweep would take its hosts for ours. */}}
{{- define "paddock.fullname" -}}
{{- $name := default .Release.Name .Values.fullnameOverride -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "fullnameOverride: the name %s is longer than 40 characters, which machines' names have no room for: give a shorter one" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "paddock.labels" -}}
app.kubernetes.io/name: paddock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "paddock.selector" -}}
app.kubernetes.io/name: paddock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "paddock.image" -}}
{{ required "image.repository is empty: say where you pushed the image (a released chart names its own)" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{- define "paddock.runnersNamespace" -}}
{{- default (printf "%s-runners" .Release.Namespace) .Values.runners.namespace -}}
{{- end -}}

{{/* Every fleet: top-level values called …Fleet that have a machine. */}}
{{- define "paddock.fleets" -}}
{{- $fleets := dict -}}
{{- range $key, $value := .Values -}}
{{- if and (hasSuffix "Fleet" $key) (kindIs "map" $value) -}}
{{- if hasKey $value "machine" -}}
{{- $_ := set $fleets (trimSuffix "Fleet" $key) $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $fleets -}}
{{- end -}}

{{/* The zones of all fleets, once each, in order: a host is swept wherever a fleet may have claimed it. */}}
{{- define "paddock.zones" -}}
{{- $zones := list -}}
{{- range $name, $fleet := (include "paddock.fleets" . | fromJson) -}}
{{- $zones = append $zones (required (printf "%sFleet.machine.zone is empty: give the Scaleway zone of its Macs, such as fr-par-1" $name) $fleet.machine.zone) -}}
{{- end -}}
{{- $zones | uniq | sortAlpha | join "," -}}
{{- end -}}

{{- define "paddock.poolPrefix" -}}
{{- required "macosFleet.adoptPoolPrefix is empty: give the prefix of the names of free hosts, such as tuist-pool-" .Values.macosFleet.adoptPoolPrefix -}}
{{- end -}}

{{/* Machines of this release have names that start with this; free hosts must not, or they would look orphaned. */}}
{{- define "paddock.claimNamePrefix" -}}
{{- $prefix := printf "%s-" (include "paddock.fullname" .) -}}
{{- $pool := include "paddock.poolPrefix" . -}}
{{- if or (hasPrefix $prefix $pool) (hasPrefix $pool $prefix) -}}
{{- fail (printf "macosFleet.orphanReclaim.activeReclaim: machines' names start with %s and free hosts' with %s (macosFleet.adoptPoolPrefix), so free hosts would look orphaned: install under another release name, or set fullnameOverride" $prefix $pool) -}}
{{- end -}}
{{- $prefix -}}
{{- end -}}

{{/* What Pods in that namespace may be: no more than the pools of this chart need. */}}
{{- define "paddock.podSecurityLevel" -}}
{{- $level := "baseline" -}}
{{- range $name, $pool := .Values.runnerPools -}}
{{- if dig "docker" false $pool -}}{{- $level = "privileged" -}}{{- end -}}
{{- end -}}
{{- default $level .Values.runners.podSecurity -}}
{{- end -}}

{{- define "paddock.dispatchTLSSecret" -}}
{{- printf "%s-dispatch-tls" (include "paddock.fullname" .) -}}
{{- end -}}

{{/* Where the operator asks. */}}
{{- define "paddock.internalURL" -}}
{{- if .Values.dispatch.tls.enabled -}}
{{- printf "https://%s-dispatch.%s.svc:8443" (include "paddock.fullname" .) .Release.Namespace -}}
{{- else -}}
{{- include "paddock.dispatchURL" . -}}
{{- end -}}
{{- end -}}

{{- define "paddock.dispatchURL" -}}
{{- printf "http://%s-dispatch.%s.svc:8080" (include "paddock.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "paddock.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "paddock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
