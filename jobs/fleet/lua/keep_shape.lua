#!lua
-- What was measured at a shape.
keep(unpack(ARGV, 2, 6))
