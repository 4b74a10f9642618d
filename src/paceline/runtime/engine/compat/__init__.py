"""What Paceline relies on in vLLM (hooks, drafters, access to the workers), and its checks.

For other packages: `checks.check_hooks` and `checks.unfit_for` (do the hooks of a part fit?),
`drafters` (which drafter can follow a draft length), `executor` (reach the workers),
`linear_kernels` (which kernels run in them), `model_runner_loading.when_model_runner_loads` and
`wrapping` (wrap methods of vLLM). `tools/vllm_hooks` reads `hook` and `register`.
"""
