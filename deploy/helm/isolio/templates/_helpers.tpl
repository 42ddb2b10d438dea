{{- define "isolio.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "isolio.labels" -}}
app.kubernetes.io/name: isolio
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "isolio.selector" -}}
app.kubernetes.io/name: isolio
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* The init container that enables a disk. */ -}}
{{- define "isolio.enable" -}}
{{ printf "enable-%s" (regexReplaceAll "[^a-z0-9]+" (lower .) "-" | trimSuffix "-") | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- /* What a container may that changes weights: nothing but write files as root. With SELinux a
container's usual type, container_t, may neither write to cgroups nor reach sockets of the node. */ -}}
{{- define "isolio.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsUser: 0
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- with .Values.seLinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
