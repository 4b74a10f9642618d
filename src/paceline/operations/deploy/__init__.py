"""`paceline deploy`: Kubernetes manifests of three tiers, and what a change of them costs.

Modules, each importing only those after it: `command` · `sizing` (asks the planner) ·
`other_servers` (settings of TensorRT-LLM and Triton) · `bundle` (the files of a deployment) ·
`difference` (two folders compared) · `resources` (one module per kind of resource, from values to
dictionaries) · `tiers` · `values`. Rendering is pure: the same values give the same bytes.
`progress_probe` runs inside the pods and imports only the standard library.
"""
