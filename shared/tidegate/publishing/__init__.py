"""Publishing a model: look at it closely, run it, then make it a version that never changes.

from tidegate.publishing.publish import Candidate, publish
"""
