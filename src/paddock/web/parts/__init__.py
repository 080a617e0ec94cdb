"""The parts of the front page, one module each: what was seen at one moment becomes HTML. Pure.

Every state is said in words and marked by a sign, never by colour alone; nothing carries style or script in itself.
"""
