"""Where alerts are sent: who may be sent to, how it is signed, and when it is tried again."""
