#!lua flags=allow-oom
-- For each queue, notes how many workers take from it, and sends messages for owners that have fewer in its list than
-- they may: because workers have come, or because scripts of another version took jobs and sent none after them. What a
-- window holds is counted anew. Returns how many messages were sent.
local LOOKED_AT = 1000 -- messages in a list; a longer one is not counted
local AT_ONCE = 64 -- for an owner that has none, so workers of another version are kept busy
local at, in_all = int(now()), 0

-- How many queued jobs of each owner have a message, and the owners in the order of their first ones; nil and none if
-- there are too many to count.
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

-- Notes whether no worker takes from the queue; records of its jobs then say so.
local function mark_unserved(queue, workers)
  local unserved = 'unserved:' .. queue
  local is_marked = redis.call('HEXISTS', counts, unserved) == 1
  if tonumber(workers) == 0 and not is_marked then
    write('HSET', counts, unserved, 1)
  elseif tonumber(workers) > 0 and is_marked then
    write('HDEL', counts, unserved)
  end
end

local function refill(queue, workers)
  mark_unserved(queue, workers)
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
      if more > 0 then
        carry_out() -- for each owner: a command takes some thousands of arguments at most
      end
    end
  end
end

for i = 2, #ARGV - 2, 2 do
  refill(ARGV[i], ARGV[i + 1])
end
carry_out()
return in_all
