"""The recipe of the drafter for `smollm2`: its prompts; `paceline draft train` does the rest.

    PYTHONPATH=tools python -m smollm2_recipe.prompts PROMPTS.jsonl
    paceline draft train smollm2 --head --prompts PROMPTS.jsonl --out runs/smollm2-head \\
        --temperature 0 --temperature 0.7 --minutes 120

Not imported at run time.
"""
