"""The policy: a frozen base model with a LoRA adapter, its log-probs, and adapters as files."""
