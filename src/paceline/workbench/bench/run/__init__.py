"""The command `paceline bench run`.

`options` and `parsing` make a `config.RunConfig`; `plan` turns it into phases with prompts and
loads; `measure` carries them out, `repeat` by repeat; `outcome` computes the figures; `table` and
`document` show and write them. For other packages: `config.RunConfig`, `measure.measure`,
`server.fetch_model`.
"""
