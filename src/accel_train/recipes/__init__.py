"""Run configs: YAML files, whose heads tell what each has reached where it was measured."""
