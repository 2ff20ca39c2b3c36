"""Trackers: they follow metrics.jsonl in processes of their own, and send what it holds to other programs."""
