#!lua flags=allow-oom
-- Puts the end of a claim off, never nearer. The matrix, as `find.lua` gives it.
local id, owner, ttl, chunk_bytes = unpack(ARGV, 2, 5)
local at = now()
local made, ends = live_claim(id, owner, at)
if not made then
  return {}
end
local data, bytes, latest, dtype, shape =
  unpack(redis.call('HMGET', matrix_key(id), 'data', 'bytes', 'until', 'dtype', 'shape'))
ends = math.max(ends, at + tonumber(ttl))
set_claim(id, owner, made, ends, latest)
keep_chunks(id, data, tonumber(bytes), tonumber(chunk_bytes))
return {dtype, shape, int(made), int(ends)}
