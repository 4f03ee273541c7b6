#!lua flags=allow-oom
-- For each queue: how many workers take from it, and messages for owners that have fewer in its list than they may.
-- That is so where workers have come, or where scripts of another version took jobs and sent none after them. What a
-- window holds is counted anew. How many messages were sent.
local LOOKED_AT = 1000 -- messages in a list; of a longer one nothing is said
local AT_ONCE = 64 -- for an owner that has none, so workers of another version are kept busy
local at, in_all = int(now()), 0

-- By owner, the queued jobs with a message, and the owners in the order of their first ones; nil and none where these
-- are too many.
local function count_sent(queue)
  local ids = redis.call('ZRANGEBYSCORE', queued_key(queue), '-inf', '(' .. int(UNSENT), 'LIMIT', 0, LOOKED_AT + 1)
  if #ids > LOOKED_AT then
    return nil, {}
  end
  local sent, owners = {}, {}
  for _, id in ipairs(ids) do
    local owner = redis.call('HGET', job_key(id), 'owner')
    if not sent[owner] then
      sent[owner], owners[#owners + 1] = 0, owner
    end
    sent[owner] = sent[owner] + 1
  end
  return sent, owners
end

-- Records of its jobs say that no worker takes from the queue.
local function tell_unserved(queue, workers)
  local unserved = 'unserved:' .. queue
  local was_told = redis.call('HEXISTS', counts, unserved) == 1
  if tonumber(workers) == 0 and not was_told then
    write('HSET', counts, unserved, 1)
  elseif tonumber(workers) > 0 and was_told then
    write('HDEL', counts, unserved)
  end
end

local function refill(queue, workers)
  tell_unserved(queue, workers)
  if window_of(queue) ~= math.max(1, workers) then
    write('HSET', counts, 'workers:' .. queue, workers)
    known['workers:' .. queue] = tonumber(workers)
  end
  local window, counted, owners = {}, nil, {}
  local flat = redis.call('HGETALL', prefix .. 'window:' .. queue)
  if #flat > 0 then
    counted, owners = count_sent(queue)
  end
  for i = 1, counted and #flat or 0, 2 do
    local owner = flat[i]
    window[owner] = flat[i + 1]
    if not counted[owner] then
      owners[#owners + 1] = owner
    end
  end
  for _, owner in ipairs(owners) do
    if window[owner] then -- else an open server's
      local sent = counted[owner] or 0
      local more = send_next(queue, owner, sent == 0 and AT_ONCE or window_of(queue) - sent, at)
      if int(sent + more) ~= window[owner] then
        set_sent(queue, owner, sent + more)
      end
      in_all = in_all + more
    end
  end
end

for i = 2, #ARGV - 2, 2 do
  refill(ARGV[i], ARGV[i + 1])
end
carry_out()
return in_all
