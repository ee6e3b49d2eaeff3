{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "metadata" -}}
name: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
labels: {{- include "labels" . | nindent 2 }}
{{- end }}

{{- define "metadata-of-drivers" -}}
name: {{ .Release.Name }}-drivers
namespace: {{ .Release.Namespace }}
labels: {{- include "labels" . | nindent 2 }}
{{- end }}
