#!lua flags=allow-oom
-- Puts the end of a claim off, never nearer; 0 where there is no such claim.
local id, owner, ttl, chunk_bytes = unpack(ARGV, 2, 5)
local at = now()
local made, ends = live_claim(id, owner, at)
if not made then
  return 0
end
local data, bytes, latest = unpack(redis.call('HMGET', matrix_key(id), 'data', 'bytes', 'until'))
set_claim(id, owner, made, math.max(ends, at + tonumber(ttl)), latest)
keep_chunks(id, data, tonumber(bytes), tonumber(chunk_bytes))
return 1
