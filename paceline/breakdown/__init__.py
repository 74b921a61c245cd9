"""What a step consists of: repeats as one setting, beside its baseline, worker by worker and step by step."""
