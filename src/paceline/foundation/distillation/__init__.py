"""What every distillation shares: losses, optimizer, learning rate, checkpoints, held-out split.

The recipe of the bundled pair and `paceline draft` use it. It imports no other part.
"""
