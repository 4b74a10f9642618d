"""What a step costs: the table measured at the start of an engine, and how it is followed online.

For other packages: `cost_table.CostTable`.
"""
