"""What the commands share: types of options, checks of numbers, messages and signals."""
