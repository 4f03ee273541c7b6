#!lua flags=allow-oom
-- For each queue: how many workers take from it, and messages for owners that have fewer in its list than they may.
-- That is so where workers have come, or where scripts of another version took jobs and sent none after them. What a
-- window holds is counted anew. How many messages were sent.
local LOOKED_AT = 1000 -- messages in a list; of a longer one nothing is said
local AT_ONCE = 64 -- for an owner that has none, so workers of another version are kept busy
local at, in_all = int(now()), 0

-- By owner, the queued jobs with a message; nil where they are too many.
local function count_sent(queue)
  local ids = redis.call('ZRANGEBYSCORE', queued_key(queue), '-inf', '(' .. int(UNSENT), 'LIMIT', 0, LOOKED_AT + 1)
  if #ids > LOOKED_AT then
    return nil
  end
  local sent = {}
  for _, id in ipairs(ids) do
    local owner = redis.call('HGET', job_key(id), 'owner')
    sent[owner] = (sent[owner] or 0) + 1
  end
  return sent
end

local function refill(queue, workers)
  if window_of(queue) ~= math.max(1, workers) then
    write('HSET', counts, 'workers:' .. queue, workers)
    known['workers:' .. queue] = tonumber(workers)
  end
  local window = redis.call('HGETALL', window_key(queue))
  local sent = #window > 0 and count_sent(queue) or nil
  for i = 1, sent and #window or 0, 2 do
    local owner = string.match(window[i], '^sent:(.*)$')
    if owner then
      local with, without = sent[owner] or 0, redis.call('ZCARD', backlog_key(queue, owner))
      local more, gone = send_next(queue, owner, with == 0 and AT_ONCE or window_of(queue) - with, at)
      set_window(queue, owner, with + more, without - gone)
      in_all = in_all + more
    end
  end
end

for i = 2, #ARGV - 2, 2 do
  refill(ARGV[i], ARGV[i + 1])
end
carry_out()
return in_all
