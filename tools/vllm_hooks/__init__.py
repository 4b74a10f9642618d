"""Check the hook register against vLLM releases that are not installed, and render its page."""
