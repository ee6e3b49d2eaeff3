"""What a watcher keeps of its last batches, and what that proves about a server whose history went back."""
