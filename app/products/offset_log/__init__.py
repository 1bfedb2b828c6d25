"""What the workers of a pipeline recorded of their offsets, replayed: do their records contradict each other?"""
