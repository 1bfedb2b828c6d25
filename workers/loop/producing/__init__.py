"""The producers: transactional ones with slices and unknown outcomes, idempotent ones without."""
