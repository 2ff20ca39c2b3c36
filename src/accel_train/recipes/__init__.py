"""Run configs that are known to work: YAML files, whose heads tell what each reaches."""
