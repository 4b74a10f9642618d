"""What Paceline relies on in vLLM: hooks, drafters, the way to the workers; and the checks of it.

For other rooms: `checks.check_hooks` and `checks.unfit_for` (do the hooks of a part fit?),
`drafters` (which drafter can follow a draft length), `executor` (reach the workers),
`model_runner_loading.when_model_runner_loads` (wrap the model runner). `tools/vllm_hooks` reads
`hook` and `register`.
"""
