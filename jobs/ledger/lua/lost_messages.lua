#!lua flags=no-writes
-- Queued jobs that should have been started by now; see Ledger.lost_messages. Reads no others.
local LONGEST_PAUSE_US = 10e6 -- as in jobs/ledger/claims/refusals.py
local queue, broker_is_empty, grace, limit, may_swap = unpack(ARGV, 2, 6)
local paused, its_pause = unpack(redis.call('HMGET', counts, 'paused', 'paused:' .. queue))
if paused or its_pause then
  return {}
end
local at, below, overtaken = now(), '(' .. int(UNSENT), nil
local sent_before = at - grace
if broker_is_empty == '0' then
  local started, sent = unpack(redis.call('HMGET', counts, 'started:' .. queue, 'sent:' .. queue))
  below = '(' .. (started or '0')
  overtaken = {number = (started or 0) - may_swap, sent = (sent or 0) - grace}
end

local lost = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', queued_key(queue), '-inf', below, 'LIMIT', 0, limit)) do
  local attempt, number, timeout, sent, trace =
    unpack(redis.call('HMGET', job_key(id), 'attempt', 'number', 'timeout', 'published', 'trace'))
  number, sent = tonumber(number), tonumber(sent)
  if sent and sent > at + LONGEST_PAUSE_US then -- before the clock was set back: nobody can tell how long ago
    sent = 0
  end
  if sent and number and sent < sent_before and (not overtaken or number < overtaken.number or sent < overtaken.sent) then
    lost[#lost + 1] = {id, attempt, number, timeout, trace or ''}
  end
end
return lost
