"""What triggers and their hosts share: pure modules that import no trigger."""
