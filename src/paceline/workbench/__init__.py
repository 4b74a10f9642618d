"""What measures and makes: each package is a command, and none knows another."""
