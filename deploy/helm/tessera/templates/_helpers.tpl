{{/* The longest suffix of a name is 14 characters long, and names of services have at most 63. */}}
{{- define "tessera.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tessera.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tessera.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "tessera.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tessera.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "tessera.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tessera.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Time from SIGTERM to SIGKILL: the delay, the drain, and ten seconds for what comes after them. */}}
{{- define "tessera.gracePeriod" -}}
{{- add (int .Values.server.shutdownDelaySeconds) (int .Values.server.drainSeconds) 10 -}}
{{- end -}}

{{/* What is wrong between values that are right by themselves. */}}
{{- define "tessera.checks" -}}
{{- $m := .Values.models -}}
{{- if and (eq $m.source "existingClaim") (not $m.existingClaim) -}}
{{- fail "models.source is existingClaim: name the claim in models.existingClaim" -}}
{{- end -}}
{{- if and (eq $m.source "hostPath") (not $m.hostPath) -}}
{{- fail "models.source is hostPath: name the folder in models.hostPath" -}}
{{- end -}}
{{- if and (eq $m.source "image") (not $m.image.reference) -}}
{{- fail "models.source is image: name the image in models.image.reference" -}}
{{- end -}}
{{- if and (eq $m.source "initContainer") (not $m.initContainer.image) -}}
{{- fail "models.source is initContainer: name its image in models.initContainer.image" -}}
{{- end -}}
{{- if and (eq $m.source "s3") (not $m.s3.bucket) -}}
{{- fail "models.source is s3: name the bucket in models.s3.bucket" -}}
{{- end -}}
{{- if and (eq $m.source "s3") (gt (int $m.s3.syncSeconds) 0) (eq (float64 .Values.server.pollSeconds) 0.0) (ne .Values.server.modelControlMode "poll") -}}
{{- fail "models.s3.syncSeconds is set: set server.pollSeconds too, or nothing looks at what was copied" -}}
{{- end -}}
{{- $s := .Values.server -}}
{{- if and $s.loadModels (ne $s.modelControlMode "explicit") -}}
{{- fail "server.loadModels is set: it needs the server.modelControlMode explicit" -}}
{{- end -}}
{{- if and (gt (float64 $s.pollSeconds) 0.0) (has $s.modelControlMode (list "none" "explicit")) -}}
{{- fail "server.pollSeconds is set: the server.modelControlMode takes no changes on disk" -}}
{{- end -}}
{{- if and .Values.tls.clientAuthorities.existingSecret (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientAuthorities is set: it needs tls.existingSecret, the server's own certificate" -}}
{{- end -}}
{{- if and .Values.tls.requireClientCertificate (not .Values.tls.clientAuthorities.existingSecret) -}}
{{- fail "tls.requireClientCertificate is set: name who signs them in tls.clientAuthorities.existingSecret" -}}
{{- end -}}
{{- if and .Values.tls.requireClientCertificate (not .Values.tls.probeSecret) -}}
{{- fail "tls.requireClientCertificate is set: name the certificate of the probes in tls.probeSecret" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "serviceMonitor.enabled is set: it needs metrics.enabled" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.keys (not .Values.serviceMonitor.tokenSecret.name) -}}
{{- fail "serviceMonitor.enabled and keys are set: name a token with the role read in serviceMonitor.tokenSecret" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.tls.existingSecret (not .Values.serviceMonitor.tlsConfig) -}}
{{- fail "serviceMonitor.enabled and tls are set: say in serviceMonitor.tlsConfig how the certificate is checked" -}}
{{- end -}}
{{- $a := .Values.autoscaling -}}
{{- if and $a.enabled (not (or $a.waitingRequests $a.queueMilliseconds $a.cpuPercent)) -}}
{{- fail "autoscaling.enabled is set: set waitingRequests, queueMilliseconds or cpuPercent" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway.enabled is set: name the gateway in gateway.parentRefs" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled is set: name the hosts in ingress.hosts" -}}
{{- end -}}
{{- range .Values.keys -}}
{{- if not (or .existingSecret .tokenSha256 .certificate) -}}
{{- fail (printf "key %s has neither existingSecret, tokenSha256 nor certificate" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The server's configuration file: the user's lines first, as those may set keys of no table. */}}
{{- define "tessera.config" -}}
{{- with .Values.server.config }}{{ . | trimSuffix "\n" }}
{{ end -}}
{{- if .Values.tls.existingSecret }}
[tls]
certificate = "/etc/tessera/tls/tls.crt"
key = "/etc/tessera/tls/tls.key"
{{- with .Values.tls.clientAuthorities }}{{ if .existingSecret }}
client_authorities = "/etc/tessera/authorities/{{ .key }}"
{{- end }}{{ end }}
{{- if .Values.tls.requireClientCertificate }}
require_certificate = true
{{- end }}
{{ end -}}
{{- with .Values.audit }}{{ if .enabled }}
[audit]
file = "/var/log/tessera/audit.log"
most_mib = {{ int .mostMib }}
most_files = {{ int .mostFiles }}
audit_full = {{ .full | quote }}
inference = {{ .inference }}
{{- if .keySecret }}
audit_key_file = "/etc/tessera/audit/audit.key"
{{- end }}
{{ end }}{{ end -}}
{{- range .Values.keys }}
[key.{{ .name }}]
{{- if .existingSecret }}
token_file = "/etc/tessera/keys/{{ .name }}"
{{- else if .tokenSha256 }}
token_sha256 = {{ .tokenSha256 | quote }}
{{- end }}
{{- with .certificate }}
certificate = {{ . | quote }}
{{- end }}
roles = {{ .roles | toJson }}
{{- with .models }}
models = {{ . | toJson }}
{{- end }}
{{- with .requestsPerSecond }}
requests_per_second = {{ . }}
{{- end }}
{{ end -}}
{{- end -}}

{{/* How a probe asks; the context is a list of the root, the path and the times. */}}
{{- define "tessera.probe" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.tls.requireClientCertificate -}}
exec:
  command:
    - /usr/local/bin/tessera
    - serve
    - health
    - https://127.0.0.1:{{ int $root.Values.http.port }}{{ index . 1 }}
    - --any-certificate
    - --certificate=/etc/tessera/probe/tls.crt
    - --key=/etc/tessera/probe/tls.key
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: http
  {{- if $root.Values.tls.existingSecret }}
  scheme: HTTPS
  {{- end }}
{{- end }}
{{ toYaml (index . 2) }}
{{- end -}}

{{/* What containers that copy from a bucket share. */}}
{{- define "tessera.s3Container" -}}
{{- $s3 := .Values.models.s3 -}}
image: {{ $s3.image | quote }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.models.resources | nindent 2 }}
env:
  - {name: RCLONE_CONFIG, value: /notfound}
  - {name: RCLONE_S3_PROVIDER, value: {{ $s3.provider | quote }}}
  - {name: RCLONE_S3_ENV_AUTH, value: "true"}
  {{- with $s3.endpoint }}
  - {name: RCLONE_S3_ENDPOINT, value: {{ . | quote }}}
  {{- end }}
  {{- with $s3.region }}
  - {name: RCLONE_S3_REGION, value: {{ . | quote }}}
  {{- end }}
{{- with $s3.existingSecret }}
envFrom:
  - secretRef: {name: {{ . | quote }}}
{{- end }}
volumeMounts:
  - {name: models, mountPath: /repository}
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "tessera.s3Source" -}}
{{- $path := printf "%s/%s" .Values.models.s3.bucket (trimPrefix "/" .Values.models.s3.prefix) -}}
{{- printf ":s3:%s" (trimSuffix "/" $path) -}}
{{- end -}}

{{/* Sources of the volume with the tokens of keys: a file for each key. */}}
{{- define "tessera.keyFiles" -}}
{{- range .Values.keys }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret | quote }}
    items: [{key: {{ default "token" .secretKey | quote }}, path: {{ .name | quote }}}]
{{- end }}
{{- end }}
{{- end -}}

{{/* The port of the S3 store: as its endpoint says, or as its scheme has it. */}}
{{- define "tessera.s3Port" -}}
{{- $url := urlParse (default "https://s3.amazonaws.com" .Values.models.s3.endpoint) -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- default (eq $url.scheme "http" | ternary "80" "443") $port -}}
{{- end -}}
