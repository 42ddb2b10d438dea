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

{{- /* What gives a disk, or all, the scheduler: as an init container, and with follow one that stays. */ -}}
{{- define "isolio.enabler" -}}
image: {{ include "isolio.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command:
  - /usr/bin/isolio
  - enable
  - {{ if eq .disk "all" }}--all{{ else }}{{ .disk | quote }}{{ end }}
  {{- if .follow }}
  - --follow
  {{- end }}
  - --module
  {{- if eq .root.Values.modules.mode "present" }}
  # The image has no modprobe: enable itself loads what is installed on the node, unless it is loaded.
  - /lib/modules
  {{- else }}
  - {{ .root.Values.modules.directory }}
  {{- end }}
  - --error-file
  - /run/isolio/enable/{{ include "isolio.enable" .disk }}.json
securityContext: {privileged: true, readOnlyRootFilesystem: true}
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
  - {name: run-isolio, mountPath: /run/isolio}
  - {name: lib-modules, mountPath: /lib/modules, readOnly: true}
  # The node's: the runtime mounts a pod's own read-only, and then it is so for all of its containers.
  - {name: sys, mountPath: /sys}
  - {name: udev, mountPath: /run/udev/data, readOnly: true}
{{- end -}}

{{- /* Nine tenths of a limit of memory, in bytes: Go then collects all that is not used, before the kernel
ends the container. Empty for a limit that is no integer with a usual unit. */ -}}
{{- define "isolio.goMemory" -}}
{{- $limit := toString (dig "limits" "memory" "" .) -}}
{{- if regexMatch "^[0-9]+(|k|M|G|Ki|Mi|Gi)$" $limit -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- div (mul (regexFind "^[0-9]+" $limit | atoi) (get $units (regexFind "[A-Za-z]*$" $limit)) 9) 10 -}}
{{- end -}}
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
