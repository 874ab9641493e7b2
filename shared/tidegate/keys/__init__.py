"""Keys that callers and operators show: made, kept in a file, and asked for.

``key`` is one of them, ``file`` what is stored, ``ring`` reads it again when it changes, and
``access`` answers the one question of every listener: may this be done?
"""
