"""What a step costs: the table measured at the start of an engine, and how it is followed online.

For other packages: `cost_table` and `cost_model.CostModel`; in the governor also `prompt_share`.
"""
