"""What the readers of modes `id` and `updated_at` share."""
