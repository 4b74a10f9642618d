"""What the governor knows of the drafter: how often its tokens are accepted. Used by policies."""
