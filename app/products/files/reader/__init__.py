"""The files of pipelines for those who read them: what committed references name, and what nobody refers to."""
