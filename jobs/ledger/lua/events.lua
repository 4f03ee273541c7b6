#!lua flags=no-writes
-- Up to `limit` of a job's events from an id on, in the form of XRANGE. The record itself tells a plain life, as long as
-- its event stream would be there.
local id, from, limit = unpack(ARGV, 2, 4)
if redis.call('EXISTS', events_key(id)) == 1 then
  return redis.call('XRANGE', events_key(id), from, '+', 'COUNT', limit)
end
return life_of(id)
