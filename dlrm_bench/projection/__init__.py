"""What results would do to a workload."""
