"""The repositories of app/ports on Postgres, one module a noun. SQL stands here and nowhere else."""
