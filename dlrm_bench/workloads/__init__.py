"""The seven workloads: model steps built from explicit configurations, with random weights and no download."""
