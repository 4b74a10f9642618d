"""What serves: governor, engine, gateway, and the command that composes them."""
