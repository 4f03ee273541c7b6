#!lua
-- Binds an Idempotency-Key to what its request did.
local owner, digest, fingerprint, subject, bound_ms, max_bound = unpack(ARGV, 2, 7)
bind_key(owner, digest, fingerprint, subject, bound_ms, tonumber(max_bound))
